"""Transfer events of EVM chains as rows. Files of event logs use it too."""
