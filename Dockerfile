# The environment of requirements.lock, on Debian, with PyPI's torch (CUDA 13); the checkout lies in /rbp.
#   docker build -t rbp . && docker run --gpus all -v "$PWD/results:/rbp/results" -v "$HOME/.cache/huggingface:/hf" rbp make paper
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
ENV HF_HOME=/hf RBP_ROOT=/rbp
WORKDIR /rbp
COPY . .
RUN make env PYTHON=python
# in the image, not anew in each container; of packages some files are templates and compile not
RUN .venv/bin/python -m compileall -q .venv/lib > /dev/null || true
ENV PATH=/rbp/.venv/bin:$PATH
CMD ["make", "book"]
