"""What of google-re2 the project uses; the package ships no types."""

class error(Exception): ...

class Options:
    class Encoding:
        UTF8: Options.Encoding
        LATIN1: Options.Encoding

    encoding: Options.Encoding
    max_mem: int
    longest_match: bool
    log_errors: bool
    dot_nl: bool
    never_capture: bool
    case_sensitive: bool

class _Match: ...

class _Regexp:
    @property
    def programsize(self) -> int: ...
    def search(self, text: str | bytes, pos: int | None = None, endpos: int | None = None) -> _Match | None: ...
    def fullmatch(self, text: str | bytes, pos: int | None = None, endpos: int | None = None) -> _Match | None: ...

def compile(pattern: str | bytes, options: Options | None = None) -> _Regexp: ...
def escape(pattern: str) -> str: ...
