"""Tasks: one job each, on disk a Harbor task directory (schema 1.4), read strictly and written back losslessly."""

from envkit.task.artifacts import ArtifactConfig
from envkit.task.config import (
    SCHEMA_VERSION,
    AgentConfig,
    Author,
    CollectConfig,
    PackageConfig,
    SolutionConfig,
    StepConfig,
    TaskConfig,
    VerifierConfig,
)
from envkit.task.env_vars import SecretMap, resolve_env, resolve_headers
from envkit.task.environment import EnvironmentConfig, HealthcheckConfig, McpServerConfig, TpuConfig
from envkit.task.load import Step, Task, load_task_dir, parse_task_toml
from envkit.task.metadata import EnvkitMetadata, Metadata
from envkit.task.strict import LenientWarning
from envkit.task.write import edit_task_toml, harbor_problems, save_config, write_task_dir

__all__ = [
    "SCHEMA_VERSION",
    "AgentConfig",
    "ArtifactConfig",
    "Author",
    "CollectConfig",
    "EnvironmentConfig",
    "EnvkitMetadata",
    "HealthcheckConfig",
    "LenientWarning",
    "McpServerConfig",
    "Metadata",
    "PackageConfig",
    "SecretMap",
    "SolutionConfig",
    "Step",
    "StepConfig",
    "Task",
    "TaskConfig",
    "TpuConfig",
    "VerifierConfig",
    "edit_task_toml",
    "harbor_problems",
    "load_task_dir",
    "parse_task_toml",
    "resolve_env",
    "resolve_headers",
    "save_config",
    "write_task_dir",
]
