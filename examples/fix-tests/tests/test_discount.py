import unittest

from prices import discounted


class DiscountTest(unittest.TestCase):
    def test_a_quarter_off(self) -> None:
        self.assertEqual(discounted(1000, 25), 750)

    def test_nothing_off(self) -> None:
        self.assertEqual(discounted(999, 0), 999)

    def test_more_than_everything_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            discounted(1000, 101)


if __name__ == "__main__":
    unittest.main()
