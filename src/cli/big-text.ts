// Four columns and five rows a character: with three, B and 8, D and 0 look alike.
const GLYPHS: Record<string, string> = {
  "0": ".##. #..# #..# #..# .##.",
  "1": "..#. .##. ..#. ..#. .###",
  "2": "###. ...# .##. #... ####",
  "3": "###. ...# .##. ...# ###.",
  "4": "#..# #..# #### ...# ...#",
  "5": "#### #... ###. ...# ###.",
  "6": ".### #... ###. #..# .##.",
  "7": "#### ...# ..#. .#.. .#..",
  "8": ".##. #..# .##. #..# .##.",
  "9": ".##. #..# .### ...# ###.",
  A: ".##. #..# #### #..# #..#",
  B: "###. #..# ###. #..# ###.",
  C: ".### #... #... #... .###",
  D: "###. #..# #..# #..# ###.",
  E: "#### #... ###. #... ####",
  F: "#### #... ###. #... #...",
};

const ROWS = 5;

/** A pairing code in letters five lines high, two columns a dot, because a terminal's cell is twice as high as it is wide. */
export function bigText(code: string): string[] {
  return Array.from({ length: ROWS }, (_, row) =>
    [...code]
      .map((character) => (GLYPHS[character]?.split(" ")[row] ?? "").replaceAll("#", "██").replaceAll(".", "  "))
      .join("   ")
      .trimEnd(),
  );
}
