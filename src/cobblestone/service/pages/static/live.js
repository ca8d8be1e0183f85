// Refreshes the live figures while the page is visible.  Without scripts they are as old as the page.
"use strict";

const live = document.getElementById("live");

async function refresh() {
  if (document.hidden) return;
  try {
    const response = await fetch(live.dataset.source, { headers: { Accept: "text/html" } });
    if (response.ok) live.innerHTML = await response.text();
  } catch {
    // The server is away for a moment: the old figures stay.
  }
}

if (live) setInterval(refresh, 10000);
