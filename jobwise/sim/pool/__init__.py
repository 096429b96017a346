"""Whole simulations of a processor pool: static orders, orders by scores, start deadlines, short-job lanes, short replays."""
