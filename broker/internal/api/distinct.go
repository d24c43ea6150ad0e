package api

// distinct returns the elements of list without those whose key an earlier one
// has. It is for requests whose elements are answered with much more than they
// take: one of 1 MiB can name a topic 300,000 times, and Kafka's own clients
// never name it twice. A nil list stays nil.
func distinct[T any, K comparable](list []T, key func(*T) K) []T {
	seen := make(map[K]bool, len(list))
	out := list[:0]
	for i := range list {
		if k := key(&list[i]); !seen[k] {
			seen[k] = true
			out = append(out, list[i])
		}
	}
	return out
}
