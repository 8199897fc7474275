"""The worlds: each module renders its facts into files (`build() -> WorldFiles`)."""
