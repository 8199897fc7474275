"""Maps the repository's folders to packages: `envkit/` is `envkit`, each wing `X/` is `envkit.X`.

A bare top-level `verifiers` or `tasks` in site-packages would overwrite other people's packages; so nothing but
`envkit` is installed, and tests/test_packaging.py proves it on the built wheel.
"""

from setuptools import find_packages, setup

WINGS = ("harnesses", "verifiers", "tasks", "backends")

packages = ["envkit", *(f"envkit.{name}" for name in find_packages("envkit"))]
for wing in WINGS:
    packages += [f"envkit.{wing}", *(f"envkit.{wing}.{name}" for name in find_packages(wing))]

setup(
    packages=packages,
    package_dir={"envkit": "envkit", **{f"envkit.{wing}": wing for wing in WINGS}},
    package_data={
        "": ["*.txt", "*.toml", "*.json", "*.typed", "*.md", "*.sh", "Dockerfile"],
        "envkit.view": ["assets/*"],
        "envkit.tasks.packs": ["templates/**/*.txt"],
    },
)
