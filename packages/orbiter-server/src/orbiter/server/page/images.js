// The images of a message: chosen, pasted or dropped, and made small enough to be sent.

import { h } from "./dom.js";

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
// from here on an image is redrawn, no larger than models look at
const LARGE = 700_000;
const EDGE = 1568;
const QUALITY = 0.9;

export class Images {
  constructor(onProblem) {
    this.onProblem = onProblem;
    this.chosen = [];
    this.list = h("ul", { class: "images", "aria-label": "Images to send", hidden: true });
    this.input = h("input", {
      type: "file", accept: TYPES.join(","), multiple: true, hidden: true,
      onchange: () => {
        this.add([...this.input.files]);
        this.input.value = "";
      },
    });
    this.button = h(
      "button", { type: "button", class: "attach", "aria-label": "Add images", title: "Add images", onclick: () => this.input.click() },
      "+",
    );
  }

  // Take what somebody pastes or drops, if it is files; tables come as text with an image of it.
  takeFrom(event, transfer) {
    if (!transfer?.files.length || transfer.getData("text/plain")) return;
    event.preventDefault();
    this.add([...transfer.files]);
  }

  async add(files) {
    for (const file of files) {
      try {
        const blob = await small(file);
        this.chosen.push({ name: file.name, url: await dataUrl(blob), shown: URL.createObjectURL(blob) });
      } catch {
        this.onProblem(new Error(`${file.name} cannot be shown: give a PNG, JPEG, GIF or WebP image`));
      }
    }
    this.draw();
  }

  draw() {
    this.list.hidden = !this.chosen.length;
    this.list.replaceChildren(...this.chosen.map((image) => h(
      "li", {},
      h("img", { src: image.shown, alt: image.name }),
      h("button", { type: "button", class: "quiet", "aria-label": `Remove ${image.name}`, onclick: () => this.remove(image) }, "×"),
    )));
  }

  remove(image) {
    URL.revokeObjectURL(image.shown);
    this.chosen = this.chosen.filter((other) => other !== image);
    this.draw();
  }

  // Hand out what was chosen; `giveBack` has it again when it could not be sent.
  take() {
    const taken = this.chosen;
    this.chosen = [];
    this.draw();
    return taken;
  }

  giveBack(taken) {
    this.chosen = [...taken, ...this.chosen];
    this.draw();
  }
}

async function small(file) {
  if (!TYPES.includes(file.type)) throw new Error(file.type);
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, EDGE / Math.max(bitmap.width, bitmap.height));
  if (file.size <= LARGE || file.type === "image/gif") return file;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("too large"))), "image/webp", QUALITY);
  });
}

function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
