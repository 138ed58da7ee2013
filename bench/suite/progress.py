"""How far the suite is and how long it will take. The time is an argument; printing is the caller's."""

from dataclasses import dataclass

__all__ = ["Progress"]


@dataclass(slots=True)
class Progress:
    """Estimates in seconds are corrected by how true they have been."""

    total_s: float  # estimated, of everything
    began_s: float
    done_s: float = 0.0  # estimated, of what is done

    def done(self, estimate_s: float) -> None:
        """Something is done that was estimated to take so long."""
        self.done_s += estimate_s

    def left_s(self, now: float) -> float:
        """Seconds that remain."""
        spent = now - self.began_s
        pace = spent / self.done_s if self.done_s >= 0.05 * self.total_s else 1.0
        return max(0.0, (self.total_s - self.done_s) * pace)

    def line(self, now: float, what: str) -> str:
        """`[ 40 %, 12 min left] what`."""
        share = self.done_s / self.total_s if self.total_s else 1.0
        left = self.left_s(now)
        shown = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
        return f"[{share:4.0%}, {shown} left] {what}"
