"""Packages the files of an app for volunteers' computers: programs, containers, bundles of Python, WebAssembly.

Knows `api` to send them, and `wasm`.
"""
