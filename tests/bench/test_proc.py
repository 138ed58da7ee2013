"""CPU and memory of a session from /proc."""

import pytest

from bench.suite import proc

STAT = "{pid} ({name}) S 7 7 {session} 0 -1 4194304 900 0 0 0 {user} {system} {waited} 0 20 0 3 0 500 1 2"


def write(root, pid, session, name="epp", user=10, system=5, waited=2, pss=None):
    folder = root / str(pid)
    folder.mkdir()
    text = STAT.format(pid=pid, name=name, session=session, user=user, system=system, waited=waited)
    (folder / "stat").write_text(text)
    if pss is not None:
        (folder / "smaps_rollup").write_text(f"0-f [rollup]\nRss: 9000 kB\nPss:  {pss} kB\nPss_Dirty: 5 kB\n")


@pytest.mark.parametrize("name", ["epp", "a b", "odd) R 1 (name", "(sd-pam)"])
def test_a_name_of_any_shape_does_not_shift_the_fields(name):
    text = STAT.format(pid=12, name=name, session=7, user=10, system=5, waited=2)
    assert proc.parse_stat(text) == proc.Stat(pid=12, parent=7, session=7, ticks=17)


def test_cpu_time_is_that_of_the_whole_session_and_of_no_other(tmp_path):
    write(tmp_path, 40, session=40)
    write(tmp_path, 41, session=40, user=100, system=0, waited=0)
    write(tmp_path, 50, session=50, user=9999)
    (tmp_path / "cpuinfo").write_text("not a process")

    assert proc.cpu_seconds(40, tmp_path) == pytest.approx(117 / proc.TICKS)


def test_a_process_that_ends_while_it_is_read_is_left_out(tmp_path):
    write(tmp_path, 40, session=40)
    (tmp_path / "41").mkdir()

    assert proc.cpu_seconds(40, tmp_path) == pytest.approx(17 / proc.TICKS)


def test_memory_is_the_sum_of_proportional_sets(tmp_path):
    write(tmp_path, 40, session=40, pss=2048)
    write(tmp_path, 41, session=40, pss=1024)
    write(tmp_path, 42, session=40)  # its page is gone

    assert proc.pss_mib(40, tmp_path) == 3.0


def test_a_page_without_a_proportional_set_counts_as_nothing():
    assert proc.parse_pss_kib("Rss: 12 kB\n") == 0


def test_idle_and_waiting_time_of_a_core_are_not_busy():
    text = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 10 20 30 999 888 1 2 3 0 0\ncpu1 1 0 0 5 5 0 0 0 0 0\nintr 5 6\n"
    assert proc.parse_cores(text) == {0: 66, 1: 1}
