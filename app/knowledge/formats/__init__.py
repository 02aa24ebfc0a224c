"""One module per kind of file: bytes or text in, `Parsed` out, `ParseFailure` where there is no text."""
