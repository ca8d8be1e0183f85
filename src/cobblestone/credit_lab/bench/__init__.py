"""creditbench: a population whose true work is known, attackers in it, credit systems that pay it, and measures of both.

It uses the rooms ``attacks`` and ``systems`` beside it, which do not know it.  Needs the extra ``lab``.
"""
