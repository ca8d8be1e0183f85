"""WebAssembly: its binary format, rewriting of modules, compiler and runtime.

Knows no project and no app.
"""
