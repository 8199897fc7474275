"""What every training backend must do, as tests: `pytest --envkit-plan PLAN.toml --pyargs envkit.backend_contract`.

The plan names the backend and a small model; its tasks, steps and group size are the suite's own. The suite ships with
envkit, so that a third party's backend is held to what ours are. `runs` needs only `Backend.run`; `parts` is for
backends that have `assemble`, and is skipped for others.
"""
