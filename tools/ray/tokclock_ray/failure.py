"""What ends tokclock-ray before a load has an exit code of its own."""

COULD_NOT = 1
USAGE = 2
INTERRUPTED = 130


class Failure(Exception):
    """One clear line for a person, and the exit code that goes with it."""

    def __init__(self, message: str, code: int = COULD_NOT) -> None:
        super().__init__(message)
        self.code = code
