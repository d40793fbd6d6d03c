"""The look of the report page, in light and dark."""

STYLE = """
:root{color-scheme:light dark;--page:#f7f7f5;--card:#fff;--ink:#1c1d22;--soft:#6b6e76;--rule:#e4e4e0;
--c0:#2f6fde;--c1:#d9622b;--c2:#26935c;--c3:#8d4fc9;--c4:#c23a6b;--c5:#0f8f9c;--c6:#8a7414;--c7:#5b6475;
--ok:#1d7f4c;--okback:#e2f4ea;--warn:#8a5a00;--warnback:#fdf0d3;--bad:#b3261e;--badback:#fbe3e1}
@media(prefers-color-scheme:dark){:root{--page:#131418;--card:#1b1d23;--ink:#eceef3;--soft:#9a9faa;--rule:#2d3038;
--c0:#6fa4ff;--c1:#ff9a66;--c2:#57cc8f;--c3:#bd8cf2;--c4:#f07fa8;--c5:#4fc6d3;--c6:#d6bd4f;--c7:#a7b0c2;
--ok:#6fdc9f;--okback:#173526;--warn:#f2c463;--warnback:#3a2d10;--bad:#ff9a92;--badback:#43201e}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:40px 24px 72px}
h1{font-size:30px;letter-spacing:-.02em;margin:0;overflow-wrap:anywhere}
h2{font-size:19px;letter-spacing:-.01em;margin:44px 0 2px}
h3{font-size:15px;margin:0 0 10px;overflow-wrap:anywhere}
header p,section>p,.legend p,.small{color:var(--soft);margin:2px 0 0}
.small{font-size:13px;margin-top:8px}
small{color:var(--soft);font-weight:400;font-size:.8em}
i{display:inline-block;width:10px;height:10px;border-radius:3px;background:currentColor;margin-right:8px}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}
.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:16px;margin-top:24px}
.tile,figure,.scroll{background:var(--card);border:1px solid var(--rule);border-radius:12px}
.tile{padding:16px 20px}
.tile>*{color:var(--ink)}.tile i{background:currentColor}
.tile.c0 i{color:var(--c0)}.tile.c1 i{color:var(--c1)}.tile.c2 i{color:var(--c2)}.tile.c3 i{color:var(--c3)}
.tile.c4 i{color:var(--c4)}.tile.c5 i{color:var(--c5)}.tile.c6 i{color:var(--c6)}.tile.c7 i{color:var(--c7)}
dl{display:flex;flex-wrap:wrap;gap:8px 20px;margin:0}dt{color:var(--soft);font-size:13px}
dd{margin:0;white-space:nowrap;font-size:22px;font-weight:600;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
dd small{font-size:14px}dd.range{font-size:12px;font-weight:400;color:var(--soft);letter-spacing:0}
.scroll{overflow-x:auto;margin-top:16px}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th{font-weight:500;color:var(--soft);font-size:13px}
th,td{text-align:right;padding:9px 14px;border-bottom:1px solid var(--rule);white-space:nowrap}
tbody tr:last-child td{border-bottom:0}
th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}
td:first-child{max-width:260px;overflow:hidden;text-overflow:ellipsis}
td.health{white-space:normal;min-width:250px;color:var(--soft);font-size:13px}
td.health b{font-weight:600;padding:1px 9px;border-radius:99px;margin-right:4px}
.level0{color:var(--ok);background:var(--okback)}.level1{color:var(--warn);background:var(--warnback)}
.level2{color:var(--bad);background:var(--badback)}
.legend{margin-top:28px}.legend span{margin-right:22px;color:var(--ink);overflow-wrap:anywhere}
section .legend{margin-top:6px}.legend p{font-size:13px}
.grid2{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(420px,100%),1fr));gap:16px;margin-top:14px}
figure{margin:0;padding:14px 14px 8px}figcaption{font-weight:600;padding-left:8px}
svg{display:block;width:100%;height:auto;margin-top:6px}
.grid{stroke:var(--rule)}.mark{stroke:var(--soft);stroke-dasharray:5 4}
.tick,.markname{fill:var(--soft);font-size:11.5px;font-variant-numeric:tabular-nums}
.end,.markname{text-anchor:end}.mid{text-anchor:middle}
.line{fill:none;stroke:currentColor;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
.thin{fill:none;stroke:currentColor;stroke-width:1;opacity:.35;stroke-linejoin:round}
.band{fill:currentColor;opacity:.14}.dot{fill:currentColor}
.notes ul{color:var(--soft);padding-left:20px;overflow-wrap:anywhere}
@media print{body{background:#fff}figure,.tile{break-inside:avoid}}
"""
