"""The picker's configuration (`EndpointPickerConfig`) and the server's settings.

config = load_config(text, source)               # pure; raises ConfigError with all problems
found, config = load_any_config(text, source)    # also out of Helm values or a ConfigMap
settings, sources, notices = load_settings(arguments, os.environ, read_file)
"""

from epp.config.builtin import builtin_config
from epp.config.effective import EffectiveConfig, PluginInstance, Profile, View, WeightedScorer
from epp.config.extract import Extracted, extract_config, load_any_config
from epp.config.flags import add_settings_flags
from epp.config.kubernetes_settings import KubernetesSettings
from epp.config.leaf import Secret
from epp.config.load import load_config
from epp.config.settings import Settings
from epp.config.settings_load import load_settings
from epp.config.state_settings import StateSettings

__all__ = [
    "EffectiveConfig", "Extracted", "KubernetesSettings", "PluginInstance", "Profile", "Secret", "Settings",
    "StateSettings", "View", "WeightedScorer", "add_settings_flags", "builtin_config", "extract_config",
    "load_any_config", "load_config", "load_settings",
]  # fmt: skip
