from evaluation.standins import install

install()
