"""Settings for `jupyter nbconvert` under which an exported notebook asks the network for nothing.

    jupyter nbconvert --to html --execute --config notebooks/offline_html.py notebooks/02_threshold_sweep.ipynb

Pictures and sound are in the notebook's outputs already. What nbconvert would still fetch are helpers
that these notebooks do without: MathJax, require.js, jQuery and Mermaid.
"""

c = get_config()  # noqa: F821  (nbconvert defines it)

exporter = c.HTMLExporter
exporter.mathjax_url = exporter.require_js_url = exporter.jquery_url = ""
exporter.mermaid_js_url = exporter.mermaid_layout_elk_js_url = ""
exporter.embed_images = True
