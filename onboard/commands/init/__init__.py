"""`onboard init`: the three files of a robot, from options, answers, a URDF, or a robot that ships."""
