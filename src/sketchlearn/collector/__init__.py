"""The collector: a server that adds the sketches of many senders, counts none twice and loses none.

`sketchlearn serve` runs it. Nothing else in the package imports it; it needs the extra `serve`.
"""
