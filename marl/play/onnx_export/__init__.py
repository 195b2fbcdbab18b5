"""Policies as ONNX graphs: observations as the env gives them go in, greedy actions in the env's units come out.

The graph is put together operation by operation (``graph.py``), from the observation's parts (``features.py``) over the
network (``network.py``) to the actions (``heads.py``, ``actions.py``). It needs the package ``onnx``, which is imported here
alone and only when somebody exports; ``torch`` gives the weights and traces nothing. ``policy.py`` joins the parts.
"""
