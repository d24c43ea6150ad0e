// Package lint holds the rules of this repository that a compiler cannot
// check, as data, and the tests that hold them: which package may import
// which ([Table]), and how large functions and files may grow ([Sizes]).
//
// The rules fail with their reason, so that whoever trips over one learns why
// it is there. A rule that has become wrong is changed here, in the same
// commit as the code that needs it.
package lint
