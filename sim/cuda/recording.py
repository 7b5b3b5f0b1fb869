"""Records one launch of a program: its waveform, its timeline, its profile.

The launch runs on a separate machine, which is observed; all others run at full speed on one that
is not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtl.params import SmParams
from sim.cuda.names import readable
from sim.machine.profile import Profile
from sim.report import profile as profile_report
from sim.report import timeline as timeline_report
from sim.runner import HardwareRunner, Outcome, Runner
from sim.support.command import CommandError, check_file, write_file
from sim.waves.fst import FST, check_fst, is_fst

__all__ = ["Files", "Recording"]


@dataclass(frozen=True)
class Files:
    """The files of a recording; None for what is not recorded. ``vcd`` and ``fst`` exclude each
    other.
    """

    vcd: str | None = None
    fst: str | None = None
    timeline: str | None = None
    profile: str | None = None

    @property
    def requested(self) -> dict[str, str]:
        """Returns the files that are recorded: path by option name."""
        return {name: path for name, path in vars(self).items() if path is not None}

    @property
    def waveform(self) -> Path | None:
        """The path of the waveform."""
        name = self.vcd if self.fst is None else self.fst
        return None if name is None else Path(name)

    def check(self) -> None:
        """Raises CommandError if a file cannot be written."""
        if self.fst is not None and not is_fst(Path(self.fst)):
            raise CommandError(f"--fst {self.fst}: the name of an FST ends in {FST}")
        for path in self.requested.values():
            check_file(path)
        if self.waveform is not None:
            check_fst(self.waveform)


class Recording:
    """The recording of one launch.

    Parameters:
        number: Number of the launch, from 1 on.
        files: The files to record.
        params: Parameters of the machine.
        make_runner: Makes the machine that runs this launch, with the options ``vcd`` and
            ``watched``.
        setting: Text in the titles of pages, behind launch and kernel.

    Attributes:
        lines: One line for each written file; empty before the launch.
        failure: The reason why a file could not be written.
    """

    def __init__(
        self,
        number: int,
        files: Files,
        params: SmParams,
        make_runner: Callable[..., HardwareRunner],
        setting: str,
    ) -> None:
        self.number, self._files, self._setting = number, files, setting
        self._make_runner = make_runner
        self._profile = Profile(params)
        self._runner: HardwareRunner | None = None
        self.lines: list[str] = []
        self.failure: str | None = None

    def _watched(self, sm: Any) -> list[Any]:
        if self._files.profile is not None:
            return self._profile.watched(sm)
        return [] if self._files.timeline is None else self._profile.timeline.watched(sm)

    def runner(self) -> Runner:
        """Returns the observed machine; CommandError if its waveform cannot be written."""
        self._runner = self._make_runner(vcd=self._files.waveform, watched=self._watched)
        return self._runner

    def finish(self, kernel: str, outcome: Outcome) -> None:
        """Writes the pages; the waveform was written when the launch ended."""
        assert self._runner is not None
        note = ", up to the interruption" if outcome.status == "interrupted" else ""
        title = f"launch {self.number}: {readable(kernel)}, {self._setting}"
        cycles = self._runner.hardware.cycles
        if self._files.profile is not None:
            self._profile.finish(cycles, outcome.cycles)
        elif self._files.timeline is not None:
            self._profile.timeline.finish(cycles, outcome.cycles)
        if self._files.waveform is not None:
            self.lines.append(f"waveform      {self._files.waveform}{note}")
        pages = {
            "timeline": (
                self._files.timeline,
                lambda: timeline_report.page(self._profile.timeline, title),
            ),
            "profile": (
                self._files.profile,
                lambda: profile_report.page(self._profile, title, {}, {}),
            ),
        }
        for name, (path, page) in pages.items():
            if path is None:
                continue
            try:
                write_file(path, page().encode())
                self.lines.append(f"{name:13} {path}{note}")
            except CommandError as error:
                self.failure = str(error)
        self._runner = None  # The observed machine is not needed any more
