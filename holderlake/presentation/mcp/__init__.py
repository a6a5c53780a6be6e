"""The MCP server: the warehouse as tools, resources and prompts for assistants.

``server`` declares them, ``questions`` has the SQL of common questions, ``sandbox`` runs SQL within bounds.
"""
