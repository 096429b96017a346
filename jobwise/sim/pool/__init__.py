"""Whole simulations of a processor pool: static orders, orders by scores, promises and express lanes, short replays."""
