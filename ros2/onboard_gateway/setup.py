"""The ament_python package of the gateway."""

from setuptools import setup

setup(
    name="onboard_gateway",
    version="0.1.0",
    packages=["onboard_gateway"],
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/onboard_gateway"]),
        ("share/onboard_gateway", ["package.xml"]),
        ("share/onboard_gateway/config", ["config/gateway.yaml"]),
    ],
    entry_points={"console_scripts": ["gateway = onboard_gateway.gateway:main"]},
)
