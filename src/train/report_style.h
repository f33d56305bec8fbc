// The style sheet of reports: responsive (one column on a phone, two on a screen), with a dark
// theme.
#pragma once

#include <string_view>

namespace extensor::train {

inline constexpr std::string_view report_style = R"css(
:root{--ink:#1c2430;--soft:#5d6878;--paper:#f7f8fa;--card:#fff;--line:#e2e6ec;--train:#2f6fb7;
--held-out:#d1603d;--right:47,111,183;--wrong:209,96,61}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#98a4b5;--paper:#12161c;
--card:#1a2028;--line:#2c3541;--train:#6ea8e5;--held-out:#f08a68;--right:110,168,229;
--wrong:240,138,104}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1200px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:26px;margin:0 0 18px;letter-spacing:-.01em}
h2{font-size:17px;margin:0 0 12px}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px;
margin-top:18px;overflow-x:auto}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px}
.value{font-size:24px;font-weight:650;font-variant-numeric:tabular-nums;white-space:nowrap}
.name{color:var(--soft);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:8px 24px}
figure{margin:0}
svg{width:100%;height:auto;display:block}
.chart-title{font-size:14px;font-weight:600;fill:var(--ink)}
.tick{font-size:11px;fill:var(--soft);font-variant-numeric:tabular-nums}
.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:var(--line);stroke-width:1}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.line.train{stroke:var(--train)}.line.held-out{stroke:var(--held-out)}
.mark,.key{stroke:none}.train.key{fill:var(--train)}
.held-out.mark,.held-out.key{fill:var(--held-out)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
th{font-weight:600;color:var(--soft)}
.confusion td,.confusion th{padding:5px 9px;text-align:right;white-space:nowrap}
.confusion td{border:1px solid var(--line)}
.confusion .right{background:rgba(var(--right),var(--shade,0))}
.confusion .wrong{background:rgba(var(--wrong),var(--shade,0))}
.confusion .gap{border-left:10px solid transparent;background-clip:padding-box}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(104px,1fr));gap:14px}
.picture img{width:100%;aspect-ratio:1;object-fit:contain;image-rendering:pixelated;border-radius:8px;
background:#000;display:block}
figcaption{font-size:12px;color:var(--soft);margin-top:4px}
pre{margin:0;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-x:auto}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(250px,1fr));gap:2px 28px;margin:0}
dl div{display:flex;justify-content:space-between;gap:12px;border-bottom:1px solid var(--line);
padding:3px 0}
dt{color:var(--soft)}
dd{margin:0;text-align:right;word-break:break-word;font-variant-numeric:tabular-nums}
)css";

}  // namespace extensor::train
