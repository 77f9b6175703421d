"""Commands of `onboard-hil` that drive a simulated robot over DDS."""
