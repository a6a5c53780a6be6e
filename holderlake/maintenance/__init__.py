"""Upkeep of a home: rebuild, repair, replay, retry of failures, and removal of old answers.

Every function works on stored data; only ``retry`` sends requests.
"""
