"""The diff of workbooks: `diff_workbook` compares two canonical models of `envkit.office.workbook`.

Kinds: `cell.value`, `cell.value.derived`, `cell.type`, `cell.formula`, `cell.format`, `cell.style`; `row`, `row.blank`,
`row.order`, `row.hidden`, `column`, `column.hidden`, `column.width`; `sheet` and `sheet.name`, `.visibility`, `.order`,
`.kind`, `.freeze`, `.protection`, `.orientation`, `.header`, `.footer`, `.print_area`, `.print_titles`, `.tab_color`,
`.filter`; `merge`, `table` and `table.name`, `.range`, `.columns`, `.totals`; `comment` and `.text`, `.author`,
`.replies`, `.resolved`; `validation` and `conditional_format` with `.range`, `.rule`, `.message`, `.look`;
`hyperlink`, `chart` and `.kind`, `.title`, `.axis_titles`, `.legend`, `.series`, `.series.values`, ...; `picture`,
`picture.alt`, `shape`, `shape.text`, `object`, `pivot` and its parts; `name`;
`workbook.protection`, `workbook.macros`, `workbook.link`.
"""

from __future__ import annotations

from envkit.verifiers.diff.workbook.book import diff_workbook

__all__ = ["diff_workbook"]
