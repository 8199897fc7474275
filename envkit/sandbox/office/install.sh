#!/bin/sh
# Inside the build: pip, the packages, a user, the two trees of a world; LibreOffice where it was asked for.
set -eu
here=/tmp/envkit
if [ -f $here/ca.pem ]; then  # of a network that inspects what goes through it
  export SSL_CERT_FILE=$here/ca.pem PIP_CERT=$here/ca.pem
fi
from=
if [ -d $here/wheels ]; then  # where there is no index: pip download -r requirements.txt -d wheels
  from="--no-index --find-links $here/wheels"
fi
if ! python3 -m pip --version >/dev/null 2>&1; then
  if python3 -m ensurepip --version >/dev/null 2>&1; then
    python3 -m ensurepip >/dev/null
  elif wheel=$(ls $here/wheels/pip-*.whl 2>/dev/null); then
    export PYTHONPATH=$wheel
  else
    # A Python without pip (Debian's): pip's own wheel runs without being installed.
    python3 - <<'PYTHON'
import hashlib, json, urllib.parse, urllib.request
index = "https://pypi.org/pypi/pip/json"
page = json.load(urllib.request.urlopen(index, timeout=60))
wheel = next(entry for entry in page["urls"] if entry["packagetype"] == "bdist_wheel")
data = urllib.request.urlopen(urllib.parse.urljoin(index, wheel["url"]), timeout=120).read()
assert hashlib.sha256(data).hexdigest() == wheel["digests"]["sha256"], "pip's wheel is damaged"
open("/tmp/envkit/pip.whl", "wb").write(data)
PYTHON
    export PYTHONPATH=$here/pip.whl
  fi
fi
python3 -m pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore --break-system-packages \
  --no-deps --only-binary=:all: $from -r $here/requirements.txt
unset PYTHONPATH
if [ -n "${LIBREOFFICE:-}" ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    libreoffice-calc libreoffice-writer libreoffice-impress fonts-dejavu-core
  rm -rf /var/lib/apt/lists/*
fi
grep -q '^agent:' /etc/group || echo 'agent:x:1000:' >>/etc/group
grep -q '^agent:' /etc/passwd || echo 'agent:x:1000:1000::/home/agent:/bin/sh' >>/etc/passwd
mkdir -p /filesystem /.apps_data /home/agent
chown 1000:1000 /filesystem /.apps_data /home/agent
python3 -c 'import openpyxl, docx, pptx, pdfplumber, pypdf, pandas, numpy, matplotlib, reportlab, PIL, lxml.etree, pydantic, anyio, yaml'
rm -rf $here
