"""Making task packs: scaffold, check, split, compare, import and export. Used through `envkit pack`; see
docs/pack.md."""
