"""Reading office files, once, for everybody: small typed models of workbooks, documents, decks, PDFs, tables and app
state.

A module per format, each with one `read_...` function from bytes to a frozen model. Whatever a file may hold, a reader
either returns its model or raises `Unreadable` with a typed reason; parsers run bounded (`package.py`), but anything
that somebody else wrote should still be read in a child process with limits, as the verifiers do.
"""
