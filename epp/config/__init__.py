"""The picker's configuration (`EndpointPickerConfig`) and the server's settings.

config = load_config(text, source)                       # pure; raises ConfigError with all problems
found = extract_config(text)                             # out of a Helm values file or a ConfigMap
settings, sources, notices = load_settings(args, os.environ, read_file)
"""

from epp.config.effective import EffectiveConfig, PluginInstance, Profile, View, WeightedScorer
from epp.config.flags import add_settings_flags
from epp.config.leaf import Secret
from epp.config.load import load_config
from epp.config.settings import Settings
from epp.config.settings_load import load_settings

__all__ = [
    "EffectiveConfig", "PluginInstance", "Profile", "Secret", "Settings", "View", "WeightedScorer",
    "add_settings_flags", "load_config", "load_settings",
]  # fmt: skip
