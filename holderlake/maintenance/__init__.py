"""Upkeep of a home folder: rebuild, repair, replay, retry of failures, and removal of old answers.

Every function works on stored data; only ``retry`` sends requests.
"""
