"""Submissions that mean harm, each as the cell of one answer of the set on costs, or as a change of the notebook.

`{folder}`, `{home}`, `{grades}`, `{book}`, `{secret}` and `{port}` are filled in by the test that hands them in.
"""

# name -> (answer cell, its source): everything else in the notebook is right
CELLS = {
    "loops": ("cost-2-factor", "while True:\n    pass"),
    "stubborn": (
        "cost-5-capped",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n    try:\n"
        "        while True:\n            pass\n    except BaseException:\n        pass",
    ),
    "hungry": ("cost-3-page", "rows = []\nwhile True:\n    rows.append(bytes(range(256)) * 2**19)"),
    "hungry-family": (
        "cost-5-capped",
        "import os, time\nfor i in range(6):\n    if os.fork() == 0:\n        x = bytes(range(256)) * 2**21\n"
        "        time.sleep(60)\ntime.sleep(60)",
    ),
    "bomb": ("cost-5-capped", "import os\nwhile True:\n    os.fork()"),
    "fills": (
        "cost-3-page",
        "for place in ('/tmp/x', '/dev/shm/x', '/tmp/home/x'):\n    try:\n        with open(place, 'wb') as f:\n"
        "            for _ in range(10_000):\n                f.write(b'x' * 10**6)\n    except OSError as error:\n"
        "        print(error)",
    ),
    "floods": (
        "cost-5-capped",
        "import glob\nplace = glob.glob('/tmp/al-*/sockets')[0]\nfor i in range(10**6):\n"
        "    open(f'{{place}}/{{i}}', 'wb').write(b'x' * 10**6)",
    ),
    "quits": ("cost-5-capped", "import os\nos._exit(0)"),
    "writes": (
        "cost-3-page",
        "import os, shutil\nfor place in ({home!r}, {grades!r}, {folder!r}, {book!r}, '/', '/usr', '/etc'):\n"
        "    for do in (lambda: open(place + '/attnledger-was-here', 'w').write('x'), lambda: shutil.rmtree(place),\n"
        "               lambda: open(place + '/gradebook.db', 'w').write('x')):\n"
        "        try:\n            do()\n            print('DO' 'NE', place)\n        except Exception as error:\n"
        "            print(type(error).__name__, place)",
    ),
    "reads": (
        "cost-3-page",
        "import os\nfor top in ({home!r}, {grades!r}, {folder!r}, {book!r}, '/proc'):\n"
        "    for folder, _, files in os.walk(top):\n        for name in files:\n            try:\n"
        "                text = open(os.path.join(folder, name), errors='replace').read(10**6)\n"
        "            except OSError:\n                continue\n"
        "            if 'by_peri' 'ods(n' in text or {secret!r} in text and not folder.startswith('/proc'):\n"
        "                print('FO' 'UND', folder, name)",
    ),
    "calls": (
        "cost-3-page",
        "import socket\nfor host in ('127.0.0.1', 'localhost', '1.1.1.1'):\n    try:\n"
        "        socket.create_connection((host, {port}), 3).sendall(b'hello')\n        print('CONN' 'ECTED')\n"
        "    except OSError as error:\n        print(error)\n"
        "s = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect({unix!r})\n    print('CONN' 'ECTED')\n"
        "except OSError as error:\n    print(error)",
    ),
    "prints": ("cost-3-page", "for _ in range(300):\n    print('x' * 10**5)"),
    "shouts": ("cost-5-capped", "print('x' * 10**8)"),
    "browser": (
        "cost-3-page",
        "from IPython.display import HTML, Javascript, SVG, Markdown, display\nbad = '<script>alert(1)</script>'\n"
        "for show in (HTML, Markdown):\n    display(show(bad + '<img src=x onerror=alert(1)>'))\n"
        "display(Javascript('alert(1)'))\nprint(bad)\nraise ValueError(bad)",
    ),
}

# name -> (answer cell, its source): wrong answers to which a disarmed test would give points
FORGED = {
    "forges-trial": (
        "cost-2-factor",
        "import sys\nfrom attnledger.book.check._answer import Answer\n"
        "def trial(*args, **options):\n    return Answer(True, 'Right.')\n"
        "for module in list(sys.modules.values()):\n    if getattr(module, '__name__', '').startswith('attnledger'):\n"
        "        if hasattr(module, 'trial'):\n            module.trial = trial\n"
        "def factor(lead, trained, n):\n    return 0",
    ),
    "forges-compare": (
        "cost-1-decoder",
        "import attnledger.book.trial\nimport sys\n"
        "sys.modules['attnledger.book.trial'].compare = lambda *args, **options: None\n"
        "def decoder_layer_flops(m, n, d):\n    return 0",
    ),
    "forges-silence": (
        "cost-1-decoder",
        "shell = get_ipython()\nshell.showtraceback = lambda *args, **options: None\n"
        "shell._showtraceback = lambda *args, **options: None\ndef decoder_layer_flops(m, n, d):\n    return 0",
    ),
    "forges-source": (
        "cost-1-decoder",
        "shell = get_ipython()\n"
        "shell.input_transformers_post.append(lambda lines: [line for line in lines if 'assert' not in line])\n"
        "def decoder_layer_flops(m, n, d):\n    return 0",
    ),
}
