// Moves to the next or previous step, change or file by `j` and `k`. Keys pressed while a step loads aren't lost; a key
// that is held down waits for each step, so that it stops where the user releases it.

let due = 0; // how many more to move by, backwards if negative
let loads = false;

function go() {
  const link = document.querySelector(`a[rel=${due > 0 ? "next" : "prev"}]`);
  if (!due || !link) return (due = 0);
  due -= Math.sign(due);
  loads = link.hasAttribute("hx-get");
  link.click();
}

document.addEventListener("page:walk", ({ detail }) => {
  if (loads && detail.isHeld) return;
  due += detail.key === "j" ? 1 : -1;
  if (!loads) go();
});
document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  if (!loads || ctx.target?.id !== "stepview") return;
  loads = false;
  go();
});
