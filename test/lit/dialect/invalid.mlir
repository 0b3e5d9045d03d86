// RUN: triton-linear-opt %s --split-input-file --verify-diagnostics

"builtin.module"() ({
  // expected-error@below {{expected 2 type arguments, but had 1}}
  "tt.func"() {a.b = #ll.layout<{lane = [[1]]}>} : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  // expected-error@below {{expected base attribute 'builtin.dictionary' but got 'builtin.integer'}}
  "tt.func"() {a.b = #ll.layout<1, [2]>} : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  // expected-error@below {{expected base attribute 'builtin.array' but got 'builtin.integer'}}
  "tt.func"() {a.b = #ll.layout<{lane = [[1]]}, 2>} : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  // expected-error@below {{expected base attribute 'builtin.string' but got 'builtin.integer'}}
  "tt.func"() {a.b = #ll.plan<1, {}, []>} : () -> ()
}) : () -> ()
