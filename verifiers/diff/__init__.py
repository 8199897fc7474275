"""The typed diff: what changed between two files, folders or snapshots, as findings with addresses.

    findings = diff_files("report.xlsx", before, after)

One module per type compares two canonical models of `envkit.office`; noise (run splitting, ids, zip order, float
formatting, timestamps) is no finding, an inserted row or paragraph is one finding, and `diff(a, b)` mirrors
`diff(b, a)`.
"""
