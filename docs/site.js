// Wide tables can be scrolled with the keyboard, too.
addEventListener("load", () => setTimeout(() => document.querySelectorAll(".md-typeset__scrollwrap").forEach((x) => { x.tabIndex = 0; }), 100));
