"""Presentation: what people look at. The explorer, pictures, exports, reports, the MCP server and the terminal.

It may import the core and the engine. It computes no figure: it selects from views and macros of the warehouse.
"""
