// SPDX-License-Identifier: Apache-2.0
// host/page/page.h -- the dashboard's files, as the build has put them into
// the program: one page, its style, its code, and a library that draws charts.
//
// The coordinator serves them one by one; a report has them all in one file.
// The library is not ours: the build takes it from the system (libjs-chart.js
// on Debian). Without it page_chart_len is 0, and the page has tables.
//
// Threads  any.
// Memory   constants; a 0 follows each, beyond its length.
#ifndef HOST_PAGE_PAGE_H
#define HOST_PAGE_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[], page_css[], page_js[], page_chart[];
extern const size_t page_html_len, page_css_len, page_js_len, page_chart_len;

#endif
