"""Pictures of maps as PNG or SVG files.

Main modules: ``scene`` (the content of a picture, from the map's tables), ``layout`` (sizes and positions) and
``drawing`` (shapes, text and colours; ``drawing.draw`` has the entry function). Inputs are Arrow tables of a map,
outputs the bytes of a file; nothing here knows HTTP or billing.
"""
