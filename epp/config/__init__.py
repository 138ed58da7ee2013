"""The picker's configuration (`EndpointPickerConfig`) and the server's settings.

config = load_config(text, source)                       # pure; raises ConfigError with all problems
found = extract_config(text)                             # from a Helm values file or a ConfigMap
settings, sources, notices = load_settings(args, os.environ, read_file)
"""

from epp.config.effective import EffectiveConfig, PluginInstance, Profile, View, WeightedScorer
from epp.config.load import load_config

__all__ = ["EffectiveConfig", "PluginInstance", "Profile", "View", "WeightedScorer", "load_config"]
