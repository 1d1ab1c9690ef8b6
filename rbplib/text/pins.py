"""The packages that embedded text is drawn from, at the versions whose text is on record: all that the lock holds."""


def pins(listed):
    """{package: version} of requirements on one line."""
    return dict(entry.split("==") for entry in listed.split())


EVALUATION = pins(
    "accelerate==1.15.0 accessible-pygments==0.0.5 alabaster==0.7.16 annotated-doc==0.0.7 annotated-types==0.8.0 "
    "anyio==4.16.0 argparse-dataclass==2.0.0 asttokens==3.0.2 attrs==26.1.0 babel==2.18.0 beautifulsoup4==4.15.0 "
    "certifi==2026.10.18 charset-normalizer==3.5.2 click==8.5.1 comm==0.2.3 conda-inject==1.3.2 ConfigArgParse==1.9.0 "
    "connection_pool==0.0.3 contourpy==1.3.3 cycler==0.12.1 datasets==5.2.0 debugpy==1.8.22 dill==0.4.1 "
    "docutils==0.21.2 dpath==2.2.0 entrypoints==0.4.2 executing==2.3.0 fastjsonschema==2.22.3 filelock==4.2.11 "
    "fonttools==4.68.0 fsspec==2026.9.0 gitdb==4.0.12 GitPython==3.2.1 greenlet==3.5.6 h11==0.16.0 hf-xet==1.8.0 "
    "httpcore2==2.16.2 httpx2==2.16.2 huggingface_hub==2.4.0 humanfriendly==10.0 hypothesis==6.170.15 idna==3.20 "
    "imagesize==2.0.1 immutables==0.21 importlib_metadata==10.2.0 iniconfig==2.3.1 interface_meta==2.0.1 "
    "ipykernel==7.4.0 ipython_pygments_lexers==1.1.1 jedi==0.20.1 Jinja2==3.1.6 jsonschema==4.26.0 "
    "jsonschema-specifications==2025.9.1 jupyter-book==1.0.4.post1 jupyter-cache==1.0.1 jupyter_client==8.10.0 "
    "jupyter_core==5.9.1 jupytext==1.19.6 kiwisolver==1.5.1 latexcodec==3.0.1 lazy-importer==0.1.0 "
    "linkify-it-py==2.2.0 markdown-it-py==3.0.0 MarkupSafe==3.0.4 matplotlib==3.11.2 matplotlib-inline==0.2.2 "
    "mdit-py-plugins==0.7.0 mdurl==0.1.2 mpmath==1.4.1 multiprocess==0.70.19 myst-nb==1.4.0 myst-parser==3.0.1 "
    "narwhals==2.29.0 nbclient==0.11.0 nbformat==5.11.1 nest-asyncio2==1.7.4 networkx==3.6.1 outcome==1.3.0.post0 "
    "packaging==25.0 papermill==2.7.0 parso==0.8.7 patsy==1.0.3 pexpect==4.9.0 pillow==13.0.0 platformdirs==4.14.7 "
    "pluggy==1.7.0 prompt_toolkit==3.0.53 psutil==7.2.2 ptyprocess==0.7.0 PuLP==3.3.2 pure_eval==0.2.4 pyarrow==26.0.1 "
    "pybtex==0.26.1 pybtex-docutils==1.0.3 pydantic_core==2.50.4 pydata-sphinx-theme==0.17.1 Pygments==2.21.0 "
    "pyparsing==3.3.3 PySocks==1.7.1 pytest==9.2.0 python-dateutil==4.0.0 PyYAML==6.0.3 pyzmq==27.3.0 "
    "referencing==0.37.0 regex==2026.11.15 requests==2.34.2 rich==15.0.0 rpds-py==2026.9.1 ruff==0.17.6 "
    "safetensors==0.8.0 selenium==4.51.0 setuptools==84.2.1 shellingham==1.5.4 smart_open==7.7.1 smmap==5.0.3 "
    "snakemake==9.27.1 snakemake-interface-common==1.23.0 snakemake-interface-executor-plugins==9.4.0 "
    "snakemake-interface-logger-plugins==2.1.0 snakemake-interface-report-plugins==1.3.0 "
    "snakemake-interface-scheduler-plugins==2.0.2 snakemake-interface-storage-plugins==4.4.1 sniffio==1.3.1 "
    "snowballstemmer==3.1.1 sortedcontainers==2.4.0 soupsieve==2.10 Sphinx==7.4.7 sphinx-book-theme==1.3.0 "
    "sphinx-comments==0.0.3 sphinx-copybutton==0.5.2 sphinx-exercise==1.2.1 sphinx-jupyterbook-latex==1.0.0 "
    "sphinx-mathjax-offline==0.0.2 sphinx-multitoc-numbering==0.1.3 sphinx-proof==0.4.0 sphinx-thebe==0.3.1 "
    "sphinx-togglebutton==0.4.5 sphinx_design==0.8.0 sphinx_external_toc==1.1.0 sphinxcontrib-applehelp==2.0.0 "
    "sphinxcontrib-bibtex==2.7.0 sphinxcontrib-devhelp==2.0.0 sphinxcontrib-htmlhelp==2.1.0 "
    "sphinxcontrib-jsmath==2.0.0 sphinxcontrib-qthelp==2.0.0 sphinxcontrib-serializinghtml==2.0.0 sqlmodel==0.0.37 "
    "stack-data==0.6.3 tabulate==0.10.0 tenacity==9.2.1 throttler==1.2.3 tokenizers==0.23.3 tornado==6.6.1 "
    "tqdm==4.70.1 traitlets==5.16.1 trio-websocket==0.12.2 truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5 "
    "typing_extensions==4.16.0 tzdata==2026.6 urllib3==2.8.0 wcwidth==0.9.4 websocket-client==1.9.2 wheel==0.48.0 "
    "wrapt==2.5.2 wsproto==1.3.2 xxhash==4.1.0 yte==1.9.4 zipp==4.1.2"
)
TRAINING = pins(
    "formulaic==1.2.2 ipython==9.18.1 numpy==2.4.6 pandas==3.1.1 pydantic==2.14.3 scipy==1.17.1 "
    "SQLAlchemy==2.0.58 statsmodels==0.15.0 sympy==1.14.0rc1 torch==2.13.0 transformers==5.23.0 trio==0.35.0"
)
