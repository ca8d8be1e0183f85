"""What the client finds out of its computer: files of the system as they look on laptops, and real libraries and programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from cobblestone.client.conditions.gpus import find_gpus
from cobblestone.client.conditions.host import (
    EXCLUSIVE_HOLD_SECONDS,
    HostWatch,
    X11Idle,
    hardware_key,
    read_bus_properties,
    read_host_info,
    usable_cpus,
)
from cobblestone.domain.values import changed
from cobblestone.wire.scheduler.host import read_host_info as read_back
from cobblestone.wire.scheduler.host import write_host_info
from cobblestone.wire.text.reader import FieldReader, scan_fields

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Laptop:
    """A root folder with the files of a laptop."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 1.8e9
        self.ticks = 1000.0

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
        return path

    def watch(self) -> HostWatch:
        return HostWatch(ENVIRONMENT, root=self.root, clock=lambda: self.now, ticks=lambda: self.ticks)


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def test_what_the_system_does_not_tell_is_not_known(laptop: Laptop) -> None:
    found = laptop.watch().look(0.0)
    assert found.on_battery is None
    assert found.battery_percent is None
    assert found.celsius is None
    assert found.idle_seconds is None
    assert found.other_load is None  # needs two looks
    assert (found.metered, found.mobile) == (None, None)


@pytest.mark.parametrize(
    ("status", "online", "on_battery"),
    [("Discharging", "0", True), ("Charging", "1", False), ("Full", "1", False), ("Unknown", "0", True)],
)
def test_a_laptop_knows_its_battery(laptop: Laptop, status: str, online: str, on_battery: bool) -> None:
    supply = "sys/class/power_supply"
    laptop.write(f"{supply}/AC/type", "Mains")
    laptop.write(f"{supply}/AC/online", online)
    for name, text in {"type": "Battery", "status": status, "capacity": "71", "temp": "318"}.items():
        laptop.write(f"{supply}/BAT0/{name}", text)
    for name, text in {
        "type": "Battery",
        "scope": "Device",
        "capacity": "3",
        "status": "Discharging",
    }.items():
        laptop.write(f"{supply}/hidpp_mouse/{name}", text)
    found = laptop.watch().look(0.0)
    assert (found.on_battery, found.battery_percent) == (on_battery, 71.0)
    assert found.battery_celsius == pytest.approx(31.8)


def test_the_hottest_sensor_counts_and_broken_ones_do_not(laptop: Laptop) -> None:
    laptop.write("sys/class/hwmon/hwmon0/temp1_input", "61500")
    laptop.write("sys/class/hwmon/hwmon1/temp1_input", "-128000")
    laptop.write("sys/class/hwmon/hwmon1/temp2_input", "rubbish")
    laptop.write("sys/class/thermal/thermal_zone0/temp", "47000")
    assert laptop.watch().look(0.0).celsius == 61.5


def test_input_at_a_terminal_makes_the_computer_used(laptop: Laptop) -> None:
    terminal = laptop.write("dev/pts/0", "")
    os.utime(terminal, (laptop.now - 42, laptop.now - 999))
    assert laptop.watch().look(0.0).idle_seconds == pytest.approx(42)


def test_the_default_route_tells_a_mobile_connection(laptop: Laptop) -> None:
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT"
    laptop.write("proc/net/route", f"{head}\nwwan0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0")
    assert laptop.watch().look(0.0).mobile is True
    laptop.write("proc/net/route", f"{head}\nwlp3s0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0")
    assert laptop.watch().look(0.0).mobile is False


def test_answers_of_the_system_bus_are_read_and_rubbish_is_none() -> None:
    answer = b'{"type":"a{sv}","data":[{"IdleHint":{"type":"b","data":true},"IdleSinceHint":{"type":"t","data":17}}]}'
    assert read_bus_properties(answer) == {"IdleHint": True, "IdleSinceHint": 17}
    for rubbish in (b"", b"[]", b'{"data":[]}', b'{"data":[3]}', b'{"data":[{"x":4}]}', b"\xff"):
        assert read_bus_properties(rubbish) == {}


def test_a_running_program_is_noticed_and_held_after_its_end(laptop: Laptop) -> None:
    watch = laptop.watch()
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        assert watch.look(0.0, exclusive=["Sleep"]).exclusive_app == "Sleep"
    finally:
        sleeper.kill()
        sleeper.wait()
    laptop.ticks += EXCLUSIVE_HOLD_SECONDS - 1
    assert watch.look(0.0, exclusive=["Sleep"]).exclusive_app in ("Sleep", "")
    assert watch.look(0.0, exclusive=["no such program"]).exclusive_app == ""
    assert watch.look(0.0, exclusive_gpu=["no such program"]).exclusive_gpu_app == ""


def test_the_load_of_others_leaves_out_our_own() -> None:
    watch = HostWatch(ENVIRONMENT)
    watch.look(0.0)
    burner = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        process = psutil.Process(burner.pid)
        deadline = time.monotonic() + 30
        while sum(process.cpu_times()[:2]) < 0.4 and time.monotonic() < deadline:
            pass
        own = sum(process.cpu_times()[:2])
        with_it = watch.look(0.0).other_load
        assert with_it is not None
        assert with_it > 0
        ours = HostWatch(ENVIRONMENT)
        ours.look(own)
        assert ours.look(own + 1e6).other_load == 0.0  # all that was used is ours
    finally:
        burner.kill()
        burner.wait()


def test_a_job_that_ended_is_no_load_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    watch = HostWatch(ENVIRONMENT, ticks=lambda: now[0])
    idle = psutil.cpu_times()
    monkeypatch.setattr(psutil, "cpu_times", lambda: idle)
    watch.look(5000.0)
    now[0] += 10.0
    assert watch.look(40.0).other_load == 0.0  # the job of 4,960 s is no longer among ours


def test_this_computer_is_described_as_the_family_does(tmp_path: Path) -> None:
    host = read_host_info(tmp_path, host_cpid="ab" * 16)
    assert host.p_ncpus == usable_cpus() == len(os.sched_getaffinity(0))
    assert host.p_vendor
    assert "[Family" in host.p_model or os.uname().machine != "x86_64"
    assert host.m_nbytes == psutil.virtual_memory().total
    assert host.os_name.startswith("Linux")
    assert f"[{os.uname().release}|libc" in host.os_version
    assert 0 < host.d_free < host.d_total
    measured = changed(host, p_fpops=5e9, p_iops=2e10, p_calculated=1.8e9)
    text = write_host_info(measured)
    notes: list[object] = []
    fields = scan_fields(text.removeprefix("<host_info>\n").removesuffix("</host_info>\n"), "host_info")
    assert read_back(FieldReader(fields, "host_info", notes)) == measured  # type: ignore[arg-type]  # parsed elements
    assert notes == []


def test_other_hardware_has_another_key(tmp_path: Path) -> None:
    host = read_host_info(tmp_path)
    assert hardware_key(host) == hardware_key(host)
    assert hardware_key(host, ("GPU",)) != hardware_key(host)


NVML = r"""
#include <string.h>
static int opened;
int nvmlInit_v2(void) { opened = 1; return 0; }
int nvmlShutdown(void) { opened = 0; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = opened ? 3 : 0; return opened ? 0 : 1; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { strncpy(text, "535.104.05", n); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = (void *)(long)(i + 1); return i == 2; }
int nvmlDeviceGetName(void *device, char *text, unsigned n) { strncpy(text, "Example GPU", n); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *m) {
    m[0] = 8000000000ULL, m[1] = 7000000000ULL, m[2] = 1;
    return 0;
}
int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *clock) {
    *clock = 1000 * (unsigned)(long)device;
    return type != 1;
}
int nvmlDeviceGetNumGpuCores(void *device, unsigned *cores) { *cores = 2000; return 0; }
"""
OPENCL = r"""
#include <string.h>
#include <stdint.h>
int clGetPlatformIDs(unsigned n, void **ids, unsigned *count) {
    if (count) *count = 2;
    for (unsigned i = 0; i < n; i++) ids[i] = (void *)(long)(i + 1);
    return 0;
}
int clGetDeviceIDs(void *platform, unsigned long type, unsigned n, void **ids, unsigned *count) {
    if (type != 4 || platform == (void *)2) return -1;
    if (count) *count = 1;
    for (unsigned i = 0; i < n; i++) ids[i] = (void *)7;
    return 0;
}
int clGetDeviceInfo(void *device, unsigned name, size_t n, void *value, size_t *used) {
    if (device != (void *)7) return -1;
    switch (name) {
    case 0x102B: strncpy(value, "Arc Example", n); return 0;
    case 0x102C: strncpy(value, "Intel(R) Corporation", n); return 0;
    case 0x102F: strncpy(value, "OpenCL 3.0", n); return 0;
    case 0x1002: case 0x100C: if (n != 4) return -2; *(uint32_t *)value = name == 0x1002 ? 96 : 1300; return 0;
    case 0x101F: if (n != 8) return -2; *(uint64_t *)value = 4000000000ULL; return 0;
    }
    return -3;
}
"""


def build(folder: Path, name: str, source: str) -> None:
    compiler = shutil.which("gcc")
    assert compiler
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-o", str(folder / name), "-x", "c", "-"],
        input=source.encode(),
        check=True,
    )


def test_gpus_are_found_through_the_drivers_libraries(tmp_path: Path) -> None:
    """Libraries with the drivers' C interface, since this machine has no GPU."""
    assert find_gpus(ENVIRONMENT) == ()
    build(tmp_path, "libnvidia-ml.so.1", NVML)
    build(tmp_path, "libOpenCL.so.1", OPENCL)
    nvidia, intel = find_gpus({**ENVIRONMENT, "LD_LIBRARY_PATH": str(tmp_path)})
    assert (nvidia.type, nvidia.count, nvidia.name, nvidia.driver_version) == (
        "NVIDIA",
        2,
        "Example GPU",
        53604,
    )
    assert (nvidia.ram, nvidia.available_ram, nvidia.peak_flops) == (8e9, 7e9, 2 * 2000 * 2000e6)
    assert (intel.type, intel.count, intel.have_opencl, intel.opencl_device_version) == (
        "intel_gpu",
        1,
        True,
        "OpenCL 3.0",
    )
    assert intel.peak_flops == 2 * 96 * 8 * 1300e6


def test_a_driver_that_crashes_is_no_gpu(tmp_path: Path) -> None:
    build(tmp_path, "libnvidia-ml.so.1", "int nvmlInit_v2(void) { return *(int *)0; }")
    assert find_gpus({**ENVIRONMENT, "LD_LIBRARY_PATH": str(tmp_path)}) == ()


def test_input_on_an_x_display_is_seen(tmp_path: Path) -> None:
    # Without a file in /tmp/.X11-unix: Debian's clients connect to every display that they find there, and end with it.
    display = f":{1000 + os.getpid() % 50000}"
    read_end, write_end = os.pipe()
    server = subprocess.Popen(
        [
            "Xvfb",
            display,
            *f"-displayfd {write_end} -screen 0 320x200x24 -nolisten tcp -nolisten unix -noreset".split(),
        ],
        pass_fds=[write_end],
        stderr=subprocess.DEVNULL,
    )
    os.close(write_end)
    try:
        with os.fdopen(read_end) as answer:
            assert f":{int(answer.readline())}" == display
        environment = {**ENVIRONMENT, "DISPLAY": display}
        watch = X11Idle(environment)
        deadline = time.monotonic() + 20
        while (watch.seconds() or 0.0) < 0.6 and time.monotonic() < deadline:
            time.sleep(0.05)
        before = watch.seconds()
        assert before is not None
        assert before >= 0.6
        subprocess.run(["xdotool", "key", "a"], env=environment, check=True, timeout=20)
        after = watch.seconds()
        assert after is not None
        assert after < before + 0.5
        assert HostWatch(environment, root=tmp_path).look(0.0).idle_seconds is not None
    finally:
        server.terminate()
        server.wait(timeout=20)
    assert X11Idle({"DISPLAY": ":987"}).seconds() is None
    assert X11Idle({}).seconds() is None
