"""SkyRL as the trainer: our trials are its generator, under its synchronous and its fully asynchronous loop.

`config` is the plan's form, `settings` says it in SkyRL's words, `groups` runs the rollouts of a prompt within their
deadlines, `output` makes SkyRL's rows of them, `generator`, `dataset`, `trainer` and `experiment` are what SkyRL is
plugged into, `backend` is what `backend = "skyrl"` names. Nothing here imports SkyRL, torch or Ray before a run begins.
"""
